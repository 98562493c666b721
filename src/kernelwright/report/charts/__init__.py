"""Charts as inline SVG: no library, no script, colours by class so that a page's style says what they are."""
