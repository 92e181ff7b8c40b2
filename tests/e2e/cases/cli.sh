# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154
# The command line's answers to bad input, on a machine that has KVM.
# kernels: cloud
# time: 200
# shellcheck source=e2e/lib.sh
. ./lib.sh

sh cli/run-table kvm cli/*.t || failures=1
finish
