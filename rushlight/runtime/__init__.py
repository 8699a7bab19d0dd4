"""What compiled programs run on: native code, its cache on disk, threads and memory."""
