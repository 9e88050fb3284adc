"""Which sentences limit or demand something, and which only hold a word that often does."""

import json
from pathlib import Path

import pytest

from ragstream_core.agents.context.constraints import is_constraint


@pytest.mark.parametrize(
    "text",
    [
        "The lock must not be combined with search.",
        "Only one ingest at a time writes the index.",
        "Legislative acts may only be adopted on a proposal.",
        "It is only possible if the writer is gone.",
        "X.25 requires a handshake before any packet.",
        "A key is required.",
        "The window is limited to 256 tokens.",
        "Chunks have at most 400 tokens.",
        "EX-1 | Only the owner may read it",
        "Do not remove the system block.",
        "Stop the server: do not kill it.",
        "The table is never read while it is written.",
        "`restore` refuses to replace what is there.",
        "Python 2 is not supported.",
        "Die Dichtung muss jährlich gewechselt werden.",
        "Der Deckel darf während des Betriebs nicht geöffnet werden.",
        "Ein Helm ist erforderlich.",
        "Use at most 12 facts.",
        "The old format is deprecated since version 3.",
        "A sequence must be returned.",
        "Never delete the journal by hand.",
        "Only the owner may delete a project.",
        "Le serveur doit être arrêté avant la copie.",
        "Il est interdit d'ouvrir le couvercle pendant la marche.",
        "El servidor debe estar parado antes de la copia.",
        "La tapa no se puede abrir durante la marcha.",
        "操作人员必须每天检查密封。",
        "运行时禁止打开盖子。",
        "压力不超过3巴。",
        "運転中に蓋を開けてはいけません。",
        "密封を毎日点検する必要があります。",
        "Requests must finish in 1500 ms.",
        "Retries must stop after 1000 attempts.",
        "Files must be kept from 1900 pages on.",
        "Since 2019 all services must use TLS.",
        "All services must be migrated by 2018.",
    ],
)
def test_what_limits_or_demands(text):
    assert is_constraint(text)


@pytest.mark.parametrize(
    "text",
    [
        "It was the only opposition group that could field candidates.",
        "They feared that not only would it weaken the state.",
        "In 1945 there were only 420,000.",
        "Huguenots remained in only one region of France.",
        "It was never affiliated with a denomination.",
        "The time required by a machine is its number of steps.",
        "A limited number of locomotives was built.",
        "The city limits cover 516 square kilometres.",
        "Kong Zhu refused and gave up the title.",
        "Some classes have definitions that do not fit into this framework.",
        "The content decides, never the clock.",
        "Readers never wait for a writer.",
        "The maximum of the function lies in the middle.",
        "You do not have to restart the server.",
        "The court held that states must apply the law.",
        "Two objects are equal only for small numbers of them.",
        "El servidor está en la sala de máquinas y no se mueve.",
        "Le serveur est dans la salle des machines et ne bouge pas.",
        "Das Maximum der Funktion liegt bei drei.",
        "Sie musste damals lange warten.",
        "Ein Werkzeug ist nicht erforderlich, und man muss nicht warten.",
        "Le maximum de la fonction est de trois.",
        "El mínimo y el maximum de la función son tres.",
        "他是最多人喜欢的老师。",
        "他不得不离开。",
        "这里不必须登记。",
        "これは必要な部品です。",
        "Максимум функции — maximum — равен трём.",
    ],
)
def test_what_merely_holds_such_a_word(text):
    assert not is_constraint(text)


LABELS = Path(__file__).parents[2] / "benchmarks" / "gold" / "constraints.jsonl"


def test_most_of_what_counts_as_a_constraint_binds_and_most_that_binds_counts():
    rows = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["half"] == "judge"]
    found = [row["binding"] for row in rows if is_constraint(row["text"])]
    assert sum(found) >= 0.85 * len(found), "precision"
    assert sum(found) >= 0.85 * sum(row["binding"] for row in rows), "recall"


@pytest.mark.parametrize(
    "text",
    [
        "The window opens if a password is required.",
        "It tells whether the file must be there.",
        "Wenn eine Anmeldung erforderlich ist, erscheint ein Fenster.",
        "Quand une connexion est requise, une fenêtre s'ouvre.",
        "Cuando se requiere una conexión, se abre una ventana.",
        "A name is taken if and only if it is free.",
        "It cannot get far.",
    ],
)
def test_what_is_only_a_condition_or_is_told_binds_nobody(text):
    assert not is_constraint(text)


def test_the_condition_of_a_demand_leaves_it_one():
    assert is_constraint("If the lock is held, the second process must wait.")
    assert is_constraint("The model is taken only if its weights are here.")
    assert is_constraint("Wenn die Datei fehlt, muss der Vorgang enden.")


@pytest.mark.parametrize(
    "text",
    [
        "A replica that falls behind must be rebuilt.",
        "SI units must be used in all reports.",
        "If the light is red the driver must stop.",
        "Wenn die Lampe rot ist muss der Fahrer halten.",
    ],
)
def test_a_clause_is_read_in_its_own_language_and_leaves_the_demand(text):
    assert is_constraint(text)
