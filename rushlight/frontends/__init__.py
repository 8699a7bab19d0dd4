"""Other frameworks' names and files, served by Rushlight."""
