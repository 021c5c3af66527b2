"""What is on the disk of a project: ignore files, git directories, links, and what a scan finds."""
