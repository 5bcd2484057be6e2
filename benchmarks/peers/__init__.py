"""One module for each peer. `registry` imports a module only when its peer runs: peers need different packages."""
