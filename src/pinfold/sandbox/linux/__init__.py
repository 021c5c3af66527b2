"""Pens on Linux.

Who is who, from the outside in:
- the **host** (`backend`, `command`): the user's process, with threads; it never forks;
- the **keeper** (`keeper`): started once, one thread, the standard library alone; it makes sessions and pens,
  each by a helper that it forks (`building`), watches the host, and everything ends with it;
- a session's **init** (`init`): pid 1 of its pid namespace; it holds the namespaces and the pieces that all
  pens of the session share, and ends the processes of one command on request;
- a pen's **warden** (`warden`): the process that built its mounts, outside of the pid namespace; it makes
  names (`names`, `opening`, `spots`, `judging`) and connections (`sockets`) for those inside, and records
  what it refuses. One waits, as the **builder** of the next pen, before there is a plan;
- a pen's **spawner** (`spawner`): confined by the pen's plan for good, it starts commands with vfork and
  reports.

keeper, init, warden, spawner and what they import (`channel`, `rooms`, `mounts`, `confine`) know no msgspec.
"""
