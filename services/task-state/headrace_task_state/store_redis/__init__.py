"""The store in Redis: its keys, and the scripts that change it.

Every change is one Lua script, so it is atomic. Scripts build keys while they run, so Redis in
cluster mode can't run them. No client here retries a MULTI. A script that ran although its answer
was lost is detected by the position, or is harmless when it runs again.
"""
