# SPDX-License-Identifier: Apache-2.0
# guestshot run on a machine with KVM, given what it cannot use.

$ guestshot run --kernel missing
where kvm
code 66
err guestshot: error: .*missing: .*

$ guestshot run --kernel .
where kvm
code 65
err guestshot: error: .*

$ : >empty; guestshot run --kernel empty
where kvm
code 65
err guestshot: error: .*empty.*

$ seq 1 100000 >text; guestshot run --kernel text
where kvm
code 65
err guestshot: error: .*text.*

$ head -c 4096 "$KERNELS/cloud" | tail -c 4032 >image; guestshot run --kernel image
where kvm
code 65
err guestshot: error: .*image.*

# the header's promise of 27 MB does not fit into the memory
$ guestshot run --kernel "$KERNELS/cloud" --memory 1M
where kvm
code 64
err *

$ guestshot run --kernel "$KERNELS/cloud" --initrd missing
where kvm
code 66
err guestshot: error: .*missing: .*

$ truncate -s 100M huge; guestshot run --kernel "$KERNELS/cloud" --initrd huge --memory 64M
where kvm
code 65
err guestshot: error: .*

$ guestshot run --kernel "$KERNELS/cloud" --cpus 0
where kvm
code 64
err guestshot run: --cpus 0: .*
err Try .*

$ guestshot run --kernel "$KERNELS/cloud" --cpus 65
where kvm
code 64
err guestshot run: --cpus 65: .*
err Try .*

$ guestshot run --kernel "$KERNELS/cloud" --cpus 2x
where kvm
code 64
err guestshot run: --cpus 2x: .*
err Try .*

$ guestshot run --kernel "$KERNELS/cloud" --cpus 2 --clusters 3
where kvm
code 64
err *

$ guestshot run --kernel "$KERNELS/cloud" --memory lots
where kvm
code 64
err guestshot run: --memory lots: .*
err Try .*

$ guestshot run --kernel "$KERNELS/cloud" --timeout never
where kvm
code 64
err guestshot run: --timeout never: .*
err Try .*

$ guestshot run --kernel "$KERNELS/cloud" --until '('
where kvm
code 64
err guestshot run: --until \(: .*
err Try .*

$ guestshot run --kernel "$KERNELS/cloud" --console nowhere
where kvm
code 64
err guestshot run: --console nowhere: .*
err Try .*

$ guestshot run --kernel "$KERNELS/cloud" --snapshot-on tuesday
where kvm
code 64
err guestshot run: --snapshot-on tuesday: .*
err Try .*

$ guestshot run --kernel "$KERNELS/cloud" --append "$(head -c 3000 /dev/zero | tr '\0' 'x')"
where kvm
code 64
err guestshot: error: .*

$ guestshot run --kernel "$KERNELS/cloud" --console file:missing/console
where kvm
code 73
err guestshot: error: .*missing/console.*

$ guestshot run --kernel "$KERNELS/cloud" --control missing/socket
where kvm
code 66
err guestshot: error: .*missing/socket.*

# what is there and is no socket stays as it is
$ echo mine >file; guestshot run --kernel "$KERNELS/cloud" --control file; code=$?; cat file; exit $code
where kvm
code 64
out mine
err guestshot: error: .*file.*

# a machine without KVM
$ mv /dev/kvm /dev/kvm.away; guestshot run --kernel "$KERNELS/cloud"; code=$?; mv /dev/kvm.away /dev/kvm; exit $code
where kvm
code 69
err guestshot: error: .*/dev/kvm.*

# a kernel without anything to run panics and, told to, reboots
$ guestshot run --kernel "$KERNELS/cloud" --append 'console=ttyAMA0 panic=-1' --timeout 300s >log; code=$?; grep -o 'Kernel panic' log; exit $code
where kvm
code 3
out Kernel panic
err guestshot: error: the guest ended: reboot
