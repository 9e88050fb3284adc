"""Pure text splitting: profiles, spans, sentences, headings."""
