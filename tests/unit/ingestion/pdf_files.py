"""PDF files that tests make: lines at given places of their pages, forms, pictures."""

import io

from reportlab.pdfgen import canvas

HIGH = 842
"""Points of a page from its lower edge to its upper one."""


def drawn(*pages):
    """Make a PDF; each page is called with a canvas, or is a list of (x, y, text) in order."""
    out = io.BytesIO()
    made = canvas.Canvas(out, pagesize=(595, HIGH))
    for page in pages:
        made.setFont("Helvetica", 11)
        if callable(page):
            page(made)
        else:
            for x, y, text in page:
                made.drawString(x, y, text)
        made.showPage()
    made.save()
    return out.getvalue()


def paragraph(x, top, *lines, step=14):
    """Return lines one below the other."""
    return [(x, top - step * n, line) for n, line in enumerate(lines)]
