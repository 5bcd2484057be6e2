"""The operations that a person starts, besides a publish. Each of these modules is one of them, with

XRequest        what its form asks for
preview         what must not change until `prepare`, such as the live generation, and the text that the person who
                approves reads; raises the refusals; acquires no lease, changes nothing
prepare         after the approval: recovers a dead run, acquires the lease and writes the attempt; refuses if what was
                shown has changed

and, if it has them, with two further steps of its DAG, which may be repeated: `export` and `after_commit`. Load, check,
swap and commit are those of a publish (`publish/`), which has the same interface: `publish/preview_publish.py` and
`publish/resolve.py`.

rollback        the content of an earlier generation as a new generation
bootstrap       the rows of an existing table as the first generation
rebuild         the live rows in the form of a changed feed file
erase           a generation without the rows of some keys
retire          takes a feed out of use

takeover        what bootstrap and rebuild share: reading the table whose rows they take over, and its export
lost_records    `python -m deploy recover`: makes CURRENT fit target again, or prepares the feed for a bootstrap
feed_plan       `make plan`: how a feed file differs from its table
"""
