"""The bus contract, on real servers."""
