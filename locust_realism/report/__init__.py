"""Who is shown it, on paper: the console table and the HTML report."""
