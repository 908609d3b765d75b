"""The client protocols of the gateway, one package each."""
