"""The console: pages for browsers, built from `services/console` into `site/`."""
