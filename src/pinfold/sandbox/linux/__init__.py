"""Pens on Linux.

The processes, from the outside in; each has a folder of its name:
- the **host**: the user's process, with threads; it never forks;
- the **keeper**: started once, one thread, the standard library alone. It makes sessions and pens, each by a
  helper that it forks (`keeper.forked_helpers`), and watches the host. Everything ends with it;
- the **granter**: forked when first needed. It makes, outside of every pen's mounts, the changes that a
  person has granted;
- a session's **init**: pid 1 of its pid namespace. It holds the namespaces and the mounts that all pens of
  the session share, and ends the processes of one command on request;
- a pen's **warden**: the process that built its mounts, outside of the pid namespace. It makes names and
  connections for the programs inside, and records what it denies. One waits, as the **builder** of the next
  pen, before there is a plan;
- a pen's **spawner**: confined by the pen's plan for good, it starts commands with vfork and reports their
  ends.

`protocol` has the messages between them. Forked processes and all that they import know no msgspec.
"""
