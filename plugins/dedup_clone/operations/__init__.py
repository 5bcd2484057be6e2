"""The operations that a person starts, besides a publish. Each of these modules is one of them, with

XRequest    the fields of its form
preview     the text that the person who approves it reads, and the refusals; acquires no lease, changes nothing. In
            rollback, bootstrap and rebuild also what must not change until `prepare`: the live generation, or the
            version of the existing table
prepare     its first task after the approval, which recovers a dead run, acquires the lease and writes the attempt

and with the steps that no other operation has. Load, check, swap and commit are those of a publish (`publish/`).

rollback        the content of an earlier generation as a new generation
bootstrap       the rows of an existing table as the first generation
rebuild         the live rows in the form of a changed feed file
erase           a generation without the rows of some keys
retire          takes a feed out of use

first_task      what the first tasks share
takeover        what bootstrap and rebuild share: reading the table whose rows they take over, and its export
lost_records    `python -m deploy recover`: makes CURRENT fit target again, or prepares the feed for a bootstrap
feed_plan       `make plan`: how a feed file differs from its table
"""
