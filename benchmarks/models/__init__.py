"""Networks, each written once over a namespace with PyTorch's names (``lib``)."""
