"""How a tool is declared, checked, asked about and called."""
