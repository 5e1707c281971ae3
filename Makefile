# SPDX-License-Identifier: GPL-2.0
# Entry points. Each target does what it says on a fresh Debian machine; what it
# does is in scripts/, tools/ and vm/.

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

.PHONY: help demo bench results test quick soak check check-newest fstests kernels kmod edit refresh series deb program install uninstall release man clean
.DELETE_ON_ERROR:

help:
	@echo 'make install  build sendahead and put it into PREFIX=/usr/local, with its manual page if'
	@echo '              help2man is there; DESTDIR=; make uninstall'
	@echo 'make program  only build it, in build/'
	@echo 'make demo     time btrfs send and sendahead send in turn, with the kernel that runs here,'
	@echo '              on a simulated disk, in real time: a minute and a half, as root; FILES=10000'
	@echo '              PROFILE=$(PROFILE) WORKLOAD=aged BENCH_ARGS="--samples 3"'
	@echo 'make bench    install what is needed, build the kernels, time full and'
	@echo '              incremental sends on a simulated disk and print a table'
	@echo '              FILES=$(FILES) PROFILE=$(PROFILE) WORKLOAD=$(WORKLOAD) KERNEL=$(KERNEL)'
	@echo '              BENCH_ARGS="--samples 3" (see tools/bench/send-bench --help)'
	@echo 'make results  measure what is not in results/kept, and write Documentation/results.rst: hours'
	@echo 'make check    style, in seconds: shellcheck, checkpatch, licences, names'
	@echo 'make quick    the model, liveness and streams of the newest kernel, in two'
	@echo '              minutes where the kernels are built'
	@echo 'make test     tests on the newest kernel in User Mode Linux, but for long ones;'
	@echo '              KERNELS="6.12 5.10" on those, KERNELS=all all of them on each,'
	@echo '              TESTS="vm bench/002" only these. After MINUTES=$(MINUTES) no further'
	@echo '              test begins, and those left out are named'
	@echo 'make soak     random histories, patched against stock, then random trees, received by the'
	@echo '              program and by btrfs, each for SECONDS=$(SECONDS); SEED=N the first one'
	@echo 'make fstests  the group send of xfstests in FSTESTS=DIR, a checkout that is built, on the'
	@echo '              patched kernel and on the stock one; with PROGRAM=yes on the kernel that runs'
	@echo '              here, as root: with btrfs, and with sendahead in its place'
	@echo 'make kernels  build all kernels that make test KERNELS=all needs, or KERNELS="7.2 6.12"'
	@echo 'make edit     the source of KERNEL with patches/KERNEL/readahead as commits of git, in'
	@echo '              build/edit-KERNEL; KERNEL=7.2/fixes, 7.2/searches: those of another series'
	@echo 'make refresh  write these commits back to that folder, show what has changed'
	@echo 'make series   write the mails of each series for the kernel list to out/KERNEL and check them'
	@echo 'make kmod     build btrfs.ko and rotdisk_blk.ko for the kernel that Debian ships as KERNEL'
	@echo 'make check-newest  see whether each series applies to the newest source'
	@echo 'make deb      build the package sendahead-dkms, which builds the module for the'
	@echo '              kernels of the machine it is installed on, in out/'
	@echo 'make release VERSION=...  all files of a release, in out/: programs, packages, source, patches'
	@echo 'make man      manual pages, from what --help says, in build/man'
	@echo 'make clean    remove what was built here (results/ and the cache stay)'

# Packages are installed with sudo by others than root, and so is the bench run.
demo: FILES = 10000
demo: WORKLOAD = aged
demo:
	@scripts/install-deps host program
	@$(MAKE) --no-print-directory --silent build/rotdisk-sim build/rotdisk-fuse program >&2
	@become=; test "$$(id -u)" = 0 || ! type sudo >/dev/null 2>&1 || become=sudo; \
	$$become tools/bench/send-bench --kind host --files '$(FILES)' --profile '$(PROFILE)' \
		--workload '$(WORKLOAD)' --variants stock,program --samples 2 --pace 0 --no-fio $(BENCH_ARGS)

bench:
	@scripts/install-deps kernel bench
	@tools/bench/send-bench --kernel '$(KERNEL)' --files '$(FILES)' --profile '$(PROFILE)' \
		--workload '$(WORKLOAD)' $(BENCH_ARGS)

# Runs that are in results/kept are not measured again.
results:
	@scripts/install-deps kernel bench qemu
	@$(MAKE) --no-print-directory program
	@tools/bench/make-results --measure

test:
	@tools/testing/btrfs-send/run-all --seconds "$$(($(MINUTES) * 60))" \
		$(if $(KERNELS),--kernels '$(KERNELS)') $(TESTS)

quick:
	@tools/testing/btrfs-send/run-all --kernels newest-uml rotdisk/001 rotdisk/002 rotdisk/006 \
		histories/002 liveness

soak:
	@scripts/install-deps kernel bench test
	@$(MAKE) --no-print-directory kernels KERNELS="7.2 6.12"
	@tools/testing/btrfs-send/histories/run --kernel 7.2 --kernel 6.12 --seconds '$(SECONDS)' \
		--seeds '$(or $(SEED),$(shell date +%s))'
	@tools/testing/btrfs-send/receive/soak '$(SECONDS)' '$(or $(SEED),$(shell date +%s))'

check:
	@scripts/install-deps check
	@scripts/check-style

fstests:
	@scripts/install-deps kernel bench fstests $(if $(PROGRAM),program)
	@tools/testing/fstests $(if $(PROGRAM),--program) $(FSTESTS_ARGS) '$(FSTESTS)'

kernels:
	@tools/testing/btrfs-send/run-all --only-build --kernels '$(or $(KERNELS),all)'

edit refresh:
	@scripts/install-deps kernel
	@tools/kernels/patches $@ '$(KERNEL)'

series:
	@scripts/install-deps kernel
	@tools/kernels/make-series --check '$(KERNEL)'

# Loading depends on modules that Debian's own btrfs has loaded before.
kmod:
	@scripts/install-deps kernel
	@dir="$$(tools/kernels/build-modules '$(KERNEL)')" && \
	printf '%s\n' "$$dir/btrfs.ko is for the kernel $$(cat "$$dir/release"), this machine runs $$(uname -r)." \
		'With no btrfs mounted, as root:' '  modprobe btrfs && rmmod btrfs' "  insmod $$dir/btrfs.ko"

check-newest:
	@scripts/install-deps kernel
	@for kernel in $$(tools/kernels/supported); do \
		tools/kernels/kernel-source --update "$$kernel" && \
		{ test ! -d "patches/$$kernel" || tools/kernels/apply-series --check "$$kernel"; } || exit; done

deb:
	@scripts/install-deps deb
	@dkms/build-deb

release:
	@test '$(VERSION)' = "$$(cat VERSION)" || \
		{ echo "VERSION says $$(cat VERSION): make release VERSION=$$(cat VERSION)" >&2; exit 2; }
	@scripts/install-deps deb release man
	@scripts/release

# Elsewhere than on Debian the compiler says what is missing.
program:
	@! type apt-get >/dev/null 2>&1 || scripts/install-deps program
	@$(MAKE) --no-print-directory --silent --directory=tools/sendahead
	@echo "built build/sendahead, version $$(cat VERSION)"

# PREFIX=/usr/local DESTDIR=
install: program
install uninstall:
	@$(MAKE) --no-print-directory --silent --directory=tools/sendahead $@

man:
	@! type apt-get >/dev/null 2>&1 || scripts/install-deps man
	@$(MAKE) --no-print-directory program
	@mkdir -p build/man
	@cd tools/kernels && for tool in apply-series build-modules build-root \
			debian-kernel kernel-source; do \
		help2man --no-info --version-string=sendahead --output=../../build/man/$$tool.1 \
			--name="$$(sed '1,2d; /^#/!Q; s/^# //' $$tool | tr '\n' ' ' | \
				sed 's/[:.] .*//; s/./\l&/')" ./$$tool || exit; \
	done
	@for tool in bench-report send-bench; do \
		help2man --no-info --version-string=sendahead --output=build/man/$$tool.1 \
			tools/bench/$$tool || exit; \
	done

# The disk's timing model as a program: the floor of a set of blocks.
build/rotdisk-sim: $(rotdisk)/sim.c $(rotdisk)/model.c $(rotdisk)/model.h
	@mkdir -p build
	$(CC) -O2 -Wall -Wextra -Werror -o $@ $(rotdisk)/sim.c $(rotdisk)/model.c

# The same model in real time, for a loop device of the kernel that runs.
build/rotdisk-fuse: $(rotdisk)/fuse.c $(rotdisk)/model.c $(rotdisk)/model.h
	@mkdir -p build
	flags="$$(pkg-config --cflags --libs --print-errors 'fuse3 >= 3.12')" && \
	$(CC) -O2 -Wall -Wextra -Wno-unused-parameter -Werror -o $@ $(rotdisk)/fuse.c $(rotdisk)/model.c $$flags

clean:
	rm -rf build out
