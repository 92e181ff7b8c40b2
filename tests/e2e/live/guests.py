# SPDX-License-Identifier: Apache-2.0
"""Guests of QEMU and libvirt, made and ended here, and guestshot beside them.

Everything is a private one: QEMU's sockets, and a libvirtd of an unprivileged user ("session mode") whose folders
are all below ours, so that nothing of the machine's own libvirt is touched and no right is needed but to become
that user.
"""
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

BUILD = os.environ.get('BUILD', 'build')
GUESTSHOT = os.path.abspath(os.environ.get('GUESTSHOT', f'{BUILD}/{platform.machine()}/release/guestshot'))
KERNEL = os.path.abspath(os.environ.get('KERNEL', f'{BUILD}/testbed/kernels/cloud'))
INITRD = os.path.abspath(os.environ.get('INITRD', f'{BUILD}/testbed/guest.cpio'))
# The unit tests' program, a tool as well (tests/unit/qemu/tool.h). Not that with the address sanitizer, which looks
# for XDR's functions where a library of dlopen()'s, as libvirt here, does not have them, and calls NULL.
TOOL = os.path.abspath(os.environ.get('UNIT_QEMU', f'{BUILD}/{platform.machine()}/debug/tests/unit-qemu'))
BOOT_S = 240  # of an emulated guest on a busy machine
ANSWER_S = 120
SOON_S = 20  # until a guest that was let go runs

# A spinner may be preempted by the kernel's own threads, and that in the kernel is in user mode for some instructions
# between its calls; a capture that meets them so is repeated.
SPINNER_TRIES = 10

NOBODY = 65534  # the user that libvirtd and its QEMUs run as
CAP_SYS_PTRACE = 19


class Failed(Exception):
    """A case that cannot go on."""


def wait_until(condition, seconds):
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def connect(path, seconds=60):
    """A connection to a Unix socket, as soon as somebody listens there; None: nobody does in time."""
    s = socket.socket(socket.AF_UNIX)
    return s if wait_until(lambda: s.connect_ex(path) == 0, seconds) else None


def run(arguments, seconds=ANSWER_S, **options):
    """Run a program to its end; its output is text."""
    return subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors='replace',
                          timeout=seconds, check=False, **options)


def needed():
    """What is missing here, in words; empty: nothing."""
    programs = {'qemu-system-aarch64': 'qemu-system-arm', 'setpriv': 'util-linux', 'libvirtd': 'libvirt-daemon',
                'virsh': 'libvirt-clients'}
    missing = [f'no {program} (Debian: {package})' for program, package in programs.items()
               if not shutil.which(program)]
    missing += [f'no {path} (make e2e-build)' for path in (KERNEL, INITRD, GUESTSHOT, TOOL) if not os.path.exists(path)]
    if os.geteuid() != 0:
        missing.append('not root: libvirtd runs as another user than guestshot, as it does where it is in use')
    return missing


def has_right(number):
    """Whether this process has a capability, and what it starts."""
    with open('/proc/self/status', encoding='ascii') as file:
        return int(re.search(r'^CapEff:\s*(\S+)', file.read(), re.M)[1], 16) >> number & 1


def children_of(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as file:
        return [int(word) for word in file.read().split()]


def is_alive(pid):
    """Whether a process is there and no zombie."""
    try:
        with open(f'/proc/{pid}/stat', encoding='latin-1') as file:
            return file.read().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


class Console:
    """A guest's console at a Unix socket; all output goes to a file."""

    def __init__(self, path, log):
        self.log, self.text = log, ''
        self.socket = connect(path)
        if not self.socket:
            raise Failed(f'no console at {path}')
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        with open(self.log, 'wb') as file:
            with contextlib.suppress(OSError):  # the guest's end
                while data := self.socket.recv(65536):
                    file.write(data)
                    file.flush()
                    self.text += data.decode('latin-1')

    def await_line(self, regex, seconds=ANSWER_S):
        if not wait_until(lambda: re.search(regex, self.text), seconds):
            raise Failed(f'the guest does not say {regex}: {self.text[-300:]}')

    def ask(self, line, regex, seconds=ANSWER_S):
        self.socket.sendall(line.encode() + b'\n')
        self.await_line(regex, seconds)


def log_complaints(console, name):
    """What the kernel log NAME on a console complains of."""
    log = console.text.split(f'DMESG BEGIN {name}')[-1]
    return re.findall(r'.*(?:soft lockup|rcu: INFO:.*stall|BUG:|Oops).*', log)


class Qemu:
    """A QEMU with a QMP socket for guestshot and one for us."""

    def __init__(self, work, results, memory, cpu='max,pauth-impdef=on', mib=512, vcpus=4, workload='-u 1 -k 2',
                 kernel=KERNEL, initrd=INITRD, words='', options=()):
        backend = {'file': f'memory-backend-file,mem-path={work}/ram,share=on',
                   'memfd': 'memory-backend-memfd,share=on',
                   'private': 'memory-backend-ram,share=off'}[memory]
        self.target = self.tool_target = ['--qmp', f'{work}/qmp']
        with open(f'{results}/qemu.log', 'wb') as log:
            self.process = subprocess.Popen(
                ['qemu-system-aarch64', '-M', 'virt,gic-version=3,memory-backend=mem', '-object',
                 f'{backend},id=mem,size={mib}M', '-cpu', cpu, '-smp', str(vcpus), '-m', str(mib),
                 '-accel', 'tcg,thread=multi', '-display', 'none', '-monitor', 'none', '-nodefaults',
                 '-chardev', f'socket,id=con,path={work}/con,server=on,wait=off', '-serial', 'chardev:con',
                 '-qmp', f'unix:{work}/qmp,server=on,wait=off', '-qmp', f'unix:{work}/ours,server=on,wait=off',
                 '-kernel', kernel, '-initrd', initrd, '-append', append(workload, words), *options],
                stdin=subprocess.DEVNULL, stderr=log)
        self.pid = self.process.pid
        self.console = Console(f'{work}/con', f'{results}/console')
        self.monitor = connect(f'{work}/ours')
        self.answers = self.monitor.makefile('r')
        self.answers.readline()
        self.execute('qmp_capabilities')
        # without any capability: QEMU has ours, and who has less may not look into it
        self.weak = ('setpriv', '--bounding-set=-all', '--inh-caps=-all')

    def execute(self, command, **arguments):
        self.monitor.sendall(json.dumps({'execute': command, 'arguments': arguments}).encode() + b'\n')
        while True:
            answer = json.loads(self.answers.readline())
            if 'event' not in answer:
                return answer.get('return')

    def is_running(self):
        return self.execute('query-status')['running']

    def pause(self):
        self.execute('stop')

    def unpause(self):
        self.execute('cont')

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Libvirt:
    """A libvirtd of our own, that of user nobody."""

    def __init__(self, work):
        self.work, self.daemon = work, None
        self.home = f'{work}/libvirt'
        os.makedirs(f'{self.home}/config/libvirt')
        # what belongs to root may be where nobody gets to
        for source, name in ((KERNEL, 'kernel'), (INITRD, 'initrd')):
            shutil.copyfile(source, f'{self.home}/{name}')
        with open(f'{self.home}/config/libvirt/qemu.conf', 'w', encoding='ascii') as file:
            file.write('security_driver = "none"\nstdio_handler = "file"\n')
        for folder, _, files in os.walk(self.home):
            for path in (folder, *(f'{folder}/{file}' for file in files)):
                os.chown(path, NOBODY, NOBODY)
        self.as_nobody = ('setpriv', f'--reuid={NOBODY}', f'--regid={NOBODY}', '--clear-groups', '--inh-caps=-all',
                          'env', '-u', 'DBUS_SESSION_BUS_ADDRESS', f'HOME={self.home}',
                          f'XDG_RUNTIME_DIR={self.home}/run', f'XDG_CONFIG_HOME={self.home}/config',
                          f'XDG_CACHE_HOME={self.home}/cache', f'XDG_DATA_HOME={self.home}/data')
        self.uri = f'qemu:///session?socket={self.home}/run/libvirt/libvirt-sock'
        self.start_daemon()

    def start_daemon(self):
        with open(f'{self.work}/libvirtd.log', 'ab') as log:
            # in a session of its own: what ends us with our whole group leaves it to us to end it, and in order
            self.daemon = subprocess.Popen([*self.as_nobody, 'libvirtd'], stdin=subprocess.DEVNULL, stdout=log,
                                           stderr=log, cwd=self.home, start_new_session=True)
        if not wait_until(lambda: self.daemon.poll() is not None or self.virsh('list').returncode == 0, 60):
            raise Failed('libvirtd does not answer')
        if self.daemon.poll() is not None:
            with open(f'{self.work}/libvirtd.log', encoding='utf-8', errors='replace') as log:
                raise Failed(f'libvirtd ends: {log.read()[-2000:]}')

    def virsh(self, *arguments):
        return run(['virsh', '-q', '-c', self.uri, *arguments], seconds=ANSWER_S)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            self.daemon.send_signal(signal.SIGCONT)
        self.daemon.terminate()
        self.daemon.wait()


class Domain:
    """A domain of it."""

    def __init__(self, libvirt, name, results, shared, cpu='cortex-a72', mib=512, vcpus=4, workload='-u 1 -k 2'):
        self.libvirt, self.name, self.results = libvirt, name, results
        self.target = ['--domain', name, '--connect', libvirt.uri]
        self.tool_target = ['--domain', name, libvirt.uri]
        home = libvirt.home
        backing = "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>" if shared else ''
        # named, as libvirt would look for them below /sys, which a chroot may not have
        cpus = ','.join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        self.xml = f'{home}/{name}.xml'
        with open(self.xml, 'w', encoding='ascii') as file:
            file.write(f'''<domain type='qemu'>
  <name>{name}</name><memory unit='MiB'>{mib}</memory><vcpu cpuset='{cpus}'>{vcpus}</vcpu>{backing}
  <os><type arch='aarch64' machine='virt'>hvm</type><kernel>{home}/kernel</kernel><initrd>{home}/initrd</initrd>
    <cmdline>{append(workload).replace('"', '&quot;')}</cmdline></os>
  <features><gic version='3'/></features><cpu mode='custom'><model>{cpu}</model></cpu>
  <devices><emulator>{shutil.which('qemu-system-aarch64')}</emulator>
    <serial type='unix'><source mode='bind' path='{home}/con-{name}'/></serial><memballoon model='none'/></devices>
</domain>''')
        self.create()
        # guestshot is root, QEMU is not: only this right lets it look; others let it get at libvirt's socket
        self.weak = ('setpriv', '--bounding-set=-sys_ptrace', '--inh-caps=-sys_ptrace')

    def create(self):
        created = self.libvirt.virsh('create', self.xml)
        if created.returncode:
            raise Failed(f'virsh create: {created.stderr}')
        self.console = Console(f'{self.libvirt.home}/con-{self.name}', f'{self.results}/console')
        with open(f'{self.libvirt.home}/run/libvirt/qemu/run/{self.name}.pid', encoding='ascii') as file:
            self.pid = int(file.read())

    def is_running(self):
        return self.libvirt.virsh('domstate', self.name).stdout.strip() == 'running'

    def pause(self):
        self.libvirt.virsh('suspend', self.name)

    def unpause(self):
        self.libvirt.virsh('resume', self.name)

    def end(self):
        if self.libvirt.virsh('destroy', self.name).returncode and is_alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)


def append(workload, words=''):
    return f'console=ttyAMA0 loglevel=4 panic=-1 {words} workload="{workload}"'


# --- guestshot ---------------------------------------------------------------------------------------

def until_whole(command):
    """A vCPU that stops while it changes from one stack to another has its stack cut, and status 2 says so."""
    for _ in range(3):
        taken = run(command)
        if taken.returncode != 2:
            break
    return taken


def snap(guest, output, *options, prefix=()):
    return until_whole([*prefix, GUESTSHOT, 'snap', *guest.target, *options, '-o', output])


def spinners_spin(document):
    """Whether both run, one of them in its system call."""
    running = {thread['comm']: [f['symbol'] or '' for f in thread['kernel_backtrace']]
               for task in document['tasks'] for thread in task['threads'] if thread['vcpu'] is not None}
    return 'w_spin_user' in running and any('pread64' in name for name in running.get('w_spin_kernel', []))


def take(snapshot, output):
    """A capture in which the spinners spin, by snapshot(output); as JSON beside it."""
    for _ in range(SPINNER_TRIES):
        taken = snapshot(output)
        if taken.returncode:
            break
        shown = run([GUESTSHOT, 'show', '--json', output])
        if spinners_spin(json.loads(shown.stdout)):
            break
    with open(f'{output}.json', 'w', encoding='utf-8') as file:
        file.write(shown.stdout if not taken.returncode else '')
    return taken


class Attach:
    """A guestshot attach."""

    def __init__(self, guest, work, results, prefix=(), options=()):
        self.control = f'{work}/control'
        self.log = f'{results}/attach.log'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen([*prefix, GUESTSHOT, 'attach', *guest.target, *options, '--control',
                                             self.control], stdin=subprocess.DEVNULL, stderr=log)
        if not wait_until(lambda: self.listens() or self.process.poll() is not None, 60) or \
                self.process.poll() is not None:
            self.process.kill()
            self.process.wait()
            raise Failed(f'guestshot attach: {self.said()}')

    def listens(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(self.control) == 0

    def said(self):
        with open(self.log, encoding='utf-8', errors='replace') as file:
            return file.read()

    def snap(self, output):
        return until_whole([GUESTSHOT, 'snap', '--control', self.control, '-o', output])

    def client(self):
        """A connection to the control socket, greeted."""
        s = connect(self.control)
        s.settimeout(ANSWER_S)
        file = s.makefile('rw')
        file.readline()
        return s, file

    def command(self, client, name):
        client[1].write(json.dumps({'execute': name}) + '\n')
        client[1].flush()
        while True:
            answer = json.loads(client[1].readline())
            if 'event' not in answer:
                return answer

    def kill(self, signo):
        self.process.send_signal(signo)
        return self.process.wait(timeout=SOON_S)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def attached(guest, work, results, **options):
    attach = Attach(guest, work, results, **options)
    try:
        yield attach
    finally:
        attach.end()
        if os.path.exists(attach.control):
            os.unlink(attach.control)
