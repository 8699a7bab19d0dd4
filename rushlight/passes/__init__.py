"""What is done to a graph before code is made of it."""
