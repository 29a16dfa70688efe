"""Shell lines, judged by what they do.

`words` is what a line is made of; `reader` reads it, `quoting` the words in it, and `grammar` reads it a
second time with tree-sitter's grammar of bash. `judge` says of every simple command what it does, with the
tables in `programs` and what `git`, `wrappers`, `scripts`, `places` and `addresses` know.
"""
