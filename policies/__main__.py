"""Command `python -m policies`: `gpu-rules` in a clone of the project, without an installation."""

from .command import run

if __name__ == "__main__":
    run()
