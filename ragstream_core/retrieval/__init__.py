"""From query pieces to ranked candidates: dense and lexical lists, fusion, late interaction."""
