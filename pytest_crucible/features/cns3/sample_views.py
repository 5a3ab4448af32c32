"""The claims, relations and flags of replies as graphs, each with tables of the same facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_crucible.features.cns3.antagonist import METRIC, Finding, from_text
from pytest_crucible.features.cns3.claims import CENTRAL, Extraction, parse
from pytest_crucible.records import Conversation, Note, Row, Table, View
from pytest_crucible.records.reasoning import answer_text
from pytest_crucible.records.views import Diagram, DiagramEdge, DiagramNode
from pytest_crucible.stats.number_format import quantity

# Boxes of a picture; tables have all claims and relations.
MOST_NODES = 300
# Rows of a table: a reply may have a million lines.
MOST_ROWS = 1_000


def sample_views(conversations: Sequence[Conversation]) -> Iterator[View]:
    """Yield a view of each reply that has claims or was flagged."""
    for conversation in conversations:
        extraction, findings = _read_claims(answer_text(conversation.reply)), _findings(conversation)
        if extraction.claims or findings:
            yield _reply_view(conversation, extraction, findings)


def _read_claims(reply: str) -> Extraction:
    # Other replies of a megabyte would be a million unreadable lines.
    return parse(reply) if "claim[" in reply.lower() else Extraction((), ())


def _findings(conversation: Conversation) -> tuple[Finding, ...]:
    stored = conversation.scores.get(METRIC)
    return from_text(stored).findings if isinstance(stored, str) else ()


def _reply_view(conversation: Conversation, extraction: Extraction, findings: Sequence[Finding]) -> View:
    arm = ", ".join(part for part in (conversation.arm, conversation.draw) if part)
    diagram = draw_reply(f"Claims of {arm}", extraction, findings)
    left = len(extraction.claims) + len(findings) - MOST_NODES
    note = (Note(text=f"The picture leaves {quantity(left, 'claim')} out, which the tables have."),) if left > 0 else ()
    tables = (
        _table("Claims", ("claim", "text", "documents"), _claim_rows(extraction)),
        _table(
            "Relations",
            ("from", "relation", "to"),
            [Row(cells=(r.source, r.label, r.target)) for r in extraction.relations],
        ),
        _table("Flags of the antagonist", ("flag", "severity", "values", "explained by"), _flag_rows(findings)),
        _table("Flaws of the form", ("flaw", "line", "detail"), _flaw_rows(extraction)),
    )
    return View(
        title=diagram.title, notes=note, tables=tuple(table for table in tables if table.rows), diagrams=(diagram,)
    )


def draw_reply(title: str, extraction: Extraction, findings: Sequence[Finding]) -> Diagram:
    """Return the documents that claims cite, the claims, what they relate to, and the flags, which are of the whole reply.

    Of several arrows between two claims each has its label; a relation to an unknown claim has a box for it.
    """
    edges = [
        DiagramEdge(source=f"claim {r.source}", target=f"claim {r.target}", label=r.label) for r in extraction.relations
    ]
    edges += [
        DiagramEdge(source=f"document {document}", target=f"claim {claim.id}", label="cited by")
        for claim in extraction.claims
        for document in claim.documents
    ]
    names = {finding.name for finding in findings}
    for finding in findings:
        cause = finding.caused_by if finding.caused_by in names else None
        source, target = (
            (f"flag {cause}", f"flag {finding.name}") if cause else (f"flag {finding.name}", f"claim {CENTRAL}")
        )
        edges.append(DiagramEdge(source=source, target=target, label="explains" if cause else "flags the reply"))
    nodes = {node.key: node for node in (*_claim_nodes(extraction), *_flag_nodes(findings))}
    for key in (key for edge in edges for key in (edge.source, edge.target)):
        nodes.setdefault(key, _other_node(key))
    drawn = dict(list(nodes.items())[:MOST_NODES])
    arrows = dict.fromkeys(
        edge for edge in edges if {edge.source, edge.target} <= drawn.keys() and edge.source != edge.target
    )
    return Diagram(title=title, nodes=tuple(drawn.values()), edges=tuple(arrows))


def _claim_nodes(extraction: Extraction) -> Iterator[DiagramNode]:
    for claim in extraction.claims:
        kind = "central" if claim.id == CENTRAL else "claim"
        yield DiagramNode(key=f"claim {claim.id}", label=f"{claim.id}: {claim.text}", kind=kind)


def _flag_nodes(findings: Sequence[Finding]) -> Iterator[DiagramNode]:
    for finding in findings:
        yield DiagramNode(key=f"flag {finding.name}", label=f"{finding.severity} {finding.name}", kind="flag")


def _other_node(key: str) -> DiagramNode:
    """Return the box of a document, or of a claim that the reply names and does not have."""
    kind, _, name = key.partition(" ")
    return DiagramNode(key=key, label=key if kind == "document" else f"{name}: no such claim", kind=kind)


def _claim_rows(extraction: Extraction) -> list[Row]:
    return [Row(cells=(claim.id, claim.text, ", ".join(claim.documents) or "-")) for claim in extraction.claims]


def _flag_rows(findings: Sequence[Finding]) -> list[Row]:
    return [
        Row(
            cells=(
                finding.name,
                finding.severity,
                ", ".join(f"{name} = {value:g}" for name, value in finding.evidence.items()),
                finding.caused_by or "-",
            )
        )
        for finding in findings
    ]


def _flaw_rows(extraction: Extraction) -> list[Row]:
    return [Row(cells=(flaw.defect, str(flaw.line or "-"), flaw.detail)) for flaw in extraction.flaws]


def _table(title: str, heads: tuple[str, ...], rows: Sequence[Row]) -> Table:
    left = len(rows) - MOST_ROWS
    return Table(
        title=title, heads=heads, rows=tuple(rows[:MOST_ROWS]), note=quantity(left, "more row") if left > 0 else ""
    )
