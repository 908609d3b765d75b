"""From messages of a range to one write: parse, fold into items, bring into a script's form."""
