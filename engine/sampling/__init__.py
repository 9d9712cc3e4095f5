"""From logits to the next token: penalties, filters, draws and beams."""
