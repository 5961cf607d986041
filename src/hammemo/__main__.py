"""``python -m hammemo`` is the command ``hammemo``."""

from hammemo.cli import main

if __name__ == "__main__":
    main()
