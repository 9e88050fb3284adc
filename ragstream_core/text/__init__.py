"""Text as such: blocks, headings, sentences, tokens, terms, chunks and BM25."""
