"""Seventy-two prompts and the roles that may be proposed for them; written before any rule was.

Each row: the prompt, the intents whose role fits (``""``: none may be proposed; with both, either),
and whether a subject of software may be its domain. Labelled by reading alone.
"""

NONE = ("",)

PROMPTS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    # letters and mails
    ("Write an email to our supplier. The pump arrived late and the invoice has an error. "
     "Stay polite.", NONE, False),
    ("Schreibe eine E-Mail an den Vermieter: Die Heizung funktioniert nicht. Bitte freundlich.",
     NONE, False),
    ("Draft a letter of complaint about the broken train connection to Leipzig.", NONE, False),
    ("Write a mail to the team that the release of version 2.1 is delayed, because tests fail in "
     "loader.py.", NONE, True),
    ("Écris un courriel au client pour expliquer le retard de la livraison.", NONE, False),
    ("Escribe una carta al ayuntamiento sobre el ruido del puerto.", NONE, False),
    # summaries and other texts
    ("Summarise the minutes of the board meeting in five points.", NONE, False),
    ("Fasse den Vertrag über die Kühlanlage kurz zusammen. Welche Fristen gelten?", NONE, False),
    ("请总结这份会议记录，并列出未决问题。", NONE, False),
    ("Translate the press release into plain English. Keep the names.", NONE, False),
    ("Write a short story about a lighthouse keeper who must fix the light.", NONE, False),
    ("Write a script for a ten minute play about two lawyers.", NONE, False),
    ("Review my cover letter and improve the style.", NONE, False),
    # pumps and machines
    ("What pressure must the seal of the feed pump withstand?", NONE, False),
    ("The pump fails after two hours. What may be the cause, and how do I test the seal?", NONE,
     False),
    ("Compare the two centrifugal pumps. Which one is better for hot oil?", NONE, False),
    ("Plan the maintenance of the three cooling pumps for next year.", NONE, False),
    ("Wie oft muss das Öl der Pumpe gewechselt werden? Welche Vorschrift gilt?", NONE, False),
    ("ポンプの保守計画を説明してください。", NONE, False),
    ("Create a test plan for the new valve. Include pressure and temperature.", NONE, False),
    ("The error light of the printer is on. Fix it please.", NONE, False),
    # law
    ("Explain the civil code's rules for default of the debtor.", NONE, False),
    ("Which function does the supervisory board have under section 111?", NONE, False),
    ("Review the clause on termination. Is the notice period valid?", NONE, False),
    ("Welche Ausnahmen gibt es vom Verbot? Nenne die Paragraphen.", NONE, False),
    ("What exception does the statute make for security interests in patents?", NONE, False),
    # schools, houses, people
    ("Plan a birthday party for twenty guests. The budget is 300 euros.", NONE, False),
    ("Prepare a class on photosynthesis for twelve year olds and write a test with ten questions.",
     NONE, False),
    ("How do I train a neural reflex in a horse?", NONE, False),
    ("Which train model has the lowest weight?", NONE, False),
    ("How do I set up a tent on rocky ground?", NONE, False),
    ("Implement the new travel policy in all branches. What are the steps?", NONE, False),
    ("Who may commit the company to a contract, and who checks the branch office?", NONE, False),
    # code
    ("Fix the crash in loader.py. Here is the traceback: KeyError: 'span'.", ("fix",), True),
    ("Write unit tests for the function `choose` in extract.py.", ("test",), True),
    ("Refactor the class ChunkStore so that it closes its file. Keep the public API.",
     ("implement",), True),
    ("Implement a FAISS vector store in Python and add it to the registry.", ("implement",), True),
    ("Review this pull request: the Python function reads the file twice.", ("review",), True),
    ("Schreibe einen Unit-Test für die Python-Funktion `parse`.", ("test", "implement", ""), True),
    ("The pytest run fails with ImportError. What is wrong?", ("fix",), True),
    ("How does `NliGate` decide, and where is theta read in config.py?",
     ("explain", "locate", "configure", ""), True),
    ("Compare `sqlite3` and `psycopg` for the catalog's transactions.", ("compare", ""), True),
    ("How do I configure the port in docker-compose.yml?", ("configure", ""), True),
    ("Make a plan to migrate the Python code base from SQLite to Postgres.", ("plan", ""), True),
    # code in German, French and Spanish
    ("Behebe den Absturz in loader.py. Der Traceback endet mit KeyError.", ("fix",), True),
    ("Kannst du den Fehler in `parse` korrigieren?", ("fix",), True),
    ("Warum stürzt `load_config` ab?", ("fix", "explain"), True),
    ("Implementiere die Klasse `Store` mit SQLite.", ("implement",), True),
    ("Überprüfe die Funktion `choose` in extract.py.", ("review",), True),
    ("Erkläre, wie `NliGate` entscheidet.", ("explain",), True),
    ("Vergleiche `sqlite3` und `psycopg`.", ("compare",), True),
    ("Wie konfiguriere ich den Port in `docker-compose.yml`?", ("configure",), True),
    ("Wo wird `theta` in config.py gelesen?", ("locate",), True),
    ("Corrige le plantage dans loader.py.", ("fix",), True),
    ("Implémente la classe `Store` en Python.", ("implement",), True),
    ("Explique comment fonctionne `NliGate`.", ("explain",), True),
    ("Écris des tests unitaires pour `parse`.", ("test",), True),
    ("Quelle est la différence entre `sqlite3` et `psycopg` ?", ("compare",), True),
    ("Corrige el fallo de loader.py.", ("fix",), True),
    ("Implementa la clase `Store` en Python.", ("implement",), True),
    ("¿Cómo funciona `NliGate`?", ("explain",), True),
    ("¿Dónde está definido `theta` en config.py?", ("locate",), True),
    ("Escribe pruebas unitarias para `parse`.", ("test",), True),
    # and what is no code there
    ("Behebe den Fehler in der Rechnung der Pumpe.", NONE, False),
    ("Überprüfe die Klausel zur Kündigung. Ist die Frist gültig?", NONE, False),
    ("Vergleiche die beiden Pumpen. Welche ist besser für heißes Öl?", NONE, False),
    ("Corrige la facture du fournisseur, s'il te plaît.", NONE, False),
    ("Explique pourquoi la pompe fuit.", NONE, False),
    ("Planifica una fiesta para veinte personas.", NONE, False),
    ("¿Cómo se cambia el aceite de la bomba?", NONE, False),
    ("Schreibe eine E-Mail an das Team: `loader.py` wird später fertig.", NONE, True),
    ("Rédige un courriel : les tests de loader.py échouent.", NONE, True),
)  # fmt: skip
