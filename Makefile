# SPDX-License-Identifier: GPL-2.0
# Entry points. Each target does what it says on a fresh Debian machine; what it
# does is in scripts/, vm/ and tools/testing/btrfs-send/.

FILES ?= 20000
PROFILE ?= desktop-7200
WORKLOAD ?= published
KERNEL ?= 7.2
BENCH_ARGS ?=
TESTS ?=
SECONDS ?= 600
SEED ?=
FSTESTS ?=
FSTESTS_ARGS ?=
MINUTES ?= 80

rotdisk := drivers/block/rotdisk

.PHONY: help bench test soak check check-newest fstests kernels kmod series deb clean
.DELETE_ON_ERROR:

help:
	@echo 'make bench    install what is needed, build the kernels, time full and'
	@echo '              incremental sends on a simulated disk and print a table'
	@echo '              FILES=$(FILES) PROFILE=$(PROFILE) WORKLOAD=$(WORKLOAD) KERNEL=$(KERNEL)'
	@echo '              BENCH_ARGS="--samples 3" (see scripts/send-bench.sh --help)'
	@echo 'make test     all tests; TESTS="vm bench/002" only those. What a slow machine has no time'
	@echo '              for within MINUTES=$(MINUTES) is left out, and said to be'
	@echo 'make soak     random tests of all classes (histories, faults, loads) for'
	@echo '              SECONDS=$(SECONDS); SEED=N those of this seed'
	@echo 'make fstests  the group send of xfstests in FSTESTS=DIR, a checkout that is built, on the'
	@echo '              patched kernel and on the stock one'
	@echo 'make check    style: shellcheck, checkpatch, licences, names'
	@echo 'make kernels  build the kernels of the virtual machines, stock and patched, and the'
	@echo '              debug one that the tests need'
	@echo 'make series   write the mails for the kernel list to out/KERNEL and check them'
	@echo 'make kmod     build btrfs.ko and rotdisk_blk.ko for the kernel that Debian ships as KERNEL'
	@echo 'make check-newest  see whether each series applies to the newest source of each suite'
	@echo 'make deb      build the package sendahead-dkms, which builds the module for the'
	@echo '              kernels of the machine it is installed on, in out/'
	@echo 'make clean    remove what was built here (results/ and the cache stay)'

bench:
	@scripts/install-deps kernel bench
	@$(MAKE) --no-print-directory --silent build/rotdisk-sim
	@scripts/send-bench.sh --kernel '$(KERNEL)' --files '$(FILES)' --profile '$(PROFILE)' \
		--workload '$(WORKLOAD)' $(BENCH_ARGS)

test:
	@tools/testing/btrfs-send/run-all --seconds "$$(($(MINUTES) * 60))" $(TESTS)

soak:
	@scripts/install-deps kernel bench test
	@$(MAKE) --no-print-directory --silent build/rotdisk-sim
	@$(MAKE) --no-print-directory kernels
	@tools/testing/btrfs-send/soak --seconds '$(SECONDS)' $(if $(SEED),--seed '$(SEED)')

check:
	@scripts/install-deps test
	@scripts/check-style

fstests:
	@scripts/install-deps kernel bench
	@scripts/fstests $(FSTESTS_ARGS) '$(FSTESTS)'

# Two kernels at a time: to unpack and to link keeps one processor busy.
kernels:
	@scripts/install-deps kernel qemu
	@$(MAKE) --no-print-directory --jobs=2 \
		$(foreach kernel,$(shell scripts/supported),uml-$(kernel) qemu-$(kernel))

# uml-KERNEL, qemu-KERNEL: the kernels of one lane, if the table has it.
lane = ! scripts/supported '$*' lanes | grep --quiet --line-regexp $(1) || \
	for variant in stock patched; do \
		vm/build --kind $(1) --kernel '$*' --variant "$$variant" || \
			test $$? = 77 || exit 1; \
	done

uml-%:
	@$(call lane,uml)
	@test '$*' != "$$(scripts/supported | head --lines=1)" || vm/build --variant patched --flavour debug

qemu-%:
	@$(call lane,qemu)

series:
	@scripts/install-deps kernel
	@scripts/make-series --check '$(KERNEL)'

# Loading depends on modules that Debian's own btrfs has loaded before.
kmod:
	@scripts/install-deps kernel
	@dir="$$(scripts/build-modules '$(KERNEL)')" && \
	printf '%s\n' "$$dir/btrfs.ko is for the kernel $$(cat "$$dir/release"), this machine runs $$(uname -r)." \
		'With no btrfs mounted, as root:' '  modprobe btrfs && rmmod btrfs' "  insmod $$dir/btrfs.ko"

check-newest:
	@scripts/install-deps kernel
	@scripts/check-newest

deb:
	@scripts/install-deps deb
	@dkms/build-deb

# The disk's timing model as a program: the floor of a set of blocks.
build/rotdisk-sim: $(rotdisk)/sim.c $(rotdisk)/model.c $(rotdisk)/model.h
	@mkdir -p build
	$(CC) -O2 -Wall -Wextra -Werror -o $@ $(rotdisk)/sim.c $(rotdisk)/model.c

clean:
	rm -rf build out
