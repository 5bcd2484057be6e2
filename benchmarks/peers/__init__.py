"""One module for each peer; `registry` names them, and imports each when it is asked for: they need other packages."""
