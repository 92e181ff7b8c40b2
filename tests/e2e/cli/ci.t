# SPDX-License-Identifier: Apache-2.0
# guestshot run as a test runner: options that make no sense, and a guest that is not started.

$ guestshot run --kernel k --status-line '^EXIT [0-9]+'
code 64
err guestshot run: --status-line \^EXIT \[0-9\]\+: regular expression '.*': has no \(subexpression\) for the status
err Try .*

$ guestshot run --kernel k --status-line '(a)' --status-line '(b)'
code 64
err guestshot run: --status-line \(b\): given twice; join them with \|
err Try .*

$ guestshot run --kernel k --fail-on '['
code 64
err guestshot run: --fail-on \[: regular expression '\[': .*
err Try .*

$ guestshot run --kernel k --snapshot-on fail-on
code 64
err guestshot run: --snapshot-on fail-on needs --fail-on
err Try .*

$ guestshot run --kernel k --name n
code 64
err guestshot run: --name goes with --junit or --artifacts
err Try .*

$ guestshot run --kernel k --artifacts=
code 64
err guestshot run: --artifacts : not a folder
err Try .*

$ guestshot run --kernel missing --artifacts not/there
where kvm
code 73
err guestshot: error: make the folder not/there: .*
err guestshot: FAILED: make the folder not/there: .*
err *

$ guestshot run --kernel missing --junit not/there.xml
where kvm
code 73
err guestshot: error: no JUnit file could be written to not/: .*
err *

# no guest was started: that is a result, too
$ guestshot run --kernel missing --artifacts results --name boot; code=$?; grep -o '<error type="not-started" message="' results/junit.xml; exit $code
where kvm
code 66
out <error type="not-started" message="
err guestshot: error: .*missing: .*
err guestshot: FAILED: .*missing: .*
err   test: boot
err *
