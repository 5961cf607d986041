"""The HTTP side of the service: who may call, how much, in which form.

Imports the core of the service (:mod:`hammemo_server`) and the library below it; only the
command ``hammemo serve`` imports it. Nothing here keeps an example: bodies are decoded, handed
to the core and dropped.
"""
