"""Entry point of ``python -m jupyter_gpudask``."""

from .worker.command import main

if __name__ == "__main__":
    main()
