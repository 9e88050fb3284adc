"""Documents that lie elsewhere: addresses, what speaks to each kind of place, and the mirror."""
