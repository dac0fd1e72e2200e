"""Files and reports of the world, each with the verdict that its own program gives."""
