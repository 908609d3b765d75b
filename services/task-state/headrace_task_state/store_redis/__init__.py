"""Redis as task state uses it: what is kept there, and the scripts that change it.

Every change is one Lua script, so it happens as a whole or not at all, and the scripts build keys
as they go: Redis in cluster mode can't run them. No client of ours uses MULTI with a retry; a
script that was carried out although its answer got lost is told by the position, or does no harm
when it runs again.
"""
