"""``python -m ergode`` runs the command ``ergode``."""

from ergode.cli.app import main

if __name__ == "__main__":
    main()
