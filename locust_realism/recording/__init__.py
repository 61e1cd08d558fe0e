"""What happened: the columnar record of launches, sessions and generator health; files in and out."""
