"""The approval page: questions of all the user's sessions, on one page that only their own browser sees.

`pinfold web` is a process of its own. Sessions, whichever process has them, hand it their questions by a unix
socket in the state directory (`approver` -> `question_socket` -> `open_questions`), and a browser shows them
and answers (`open_questions` -> `server` -> `page/`).

INVARIANT: an answer comes from the page alone. The socket takes questions and gives answers; nothing that is
sent to it is one. Neither it nor the page can be reached from inside a pen: the socket's directory is hidden,
loopback inside is the session's own, and the gate never dials the page's port.
"""

from pinfold.web.approver import WebApprover

__all__ = ["WebApprover"]
