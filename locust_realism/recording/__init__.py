"""Record of a run: columns of launches, sessions and generator health; files in and out."""
