"""Real devices over machines that are switched through one unix socket.

`Powerd` stands for the machines: a file each, or whatever `switch` does (such as the laboratory's
`power`). Over it stand a BMC that speaks IPMI (`ipmi_sim` of Debian's openipmi), one that speaks
Redfish (the emulator of sushy-tools), and PDUs (Debian's snmpd with a script for APC's outlets: a
stand-in for the device, but real SNMP). The real fence agents drive them.
"""

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

from tests import needs
from tests.ports import free_port

TOP = Path(__file__).resolve().parents[2]
PATH = needs.SYSTEM_PATH
needed = needs.mark("root", *needs.POWER_TOOLS, "redfish-emulator")
USER, PASSWORD = "fence", "s3cret-of-bmc"
_CLIENT = """
import socket
def powerd(word, node):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(50)
        s.connect(PATH)
        s.sendall(f"{word} {node}\\n".encode())
        code, _, out = s.makefile().read().partition("\\n")
    if code != "0":
        raise OSError(out)
    return out.strip()
"""
# A device answers before its machine is up, and who asked repeats what is not answered in a second.
_LATER = """
import fcntl, os, sys
def later(*orders):
    if os.fork():
        return
    os.setsid()
    for fd in (0, 1, 2):
        os.dup2(os.open("/dev/null", os.O_RDWR), fd)
    try:
        for word, node in orders:
            fcntl.flock(os.open(f"{PATH}.{node}", os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
            powerd(word, node)
    finally:
        os._exit(0)
"""
_CHASSIS = """
node, op, *rest = sys.argv[1:]
if op == "get":
    for what in rest:
        on = what == "power" and powerd("power-status", node) == "on"
        print(f"{what}:{'none' if what == 'boot' else int(on)}")
elif op == "set":
    words = {"reset": "power-cycle", "shutdown": "power-off"}
    orders = []
    for what, value in zip(rest[::2], rest[1::2]):
        word = "power-on" if value == "1" else "power-off"
        orders.append((words.get(what, word), node))
    later(*orders)
"""
# For half a minute snmpd repeats what a program of `pass` said: so this is one of `pass_persist`.
_OUTLETS = """
import signal
BASE = ".1.3.6.1.4.1.318.1.1.12.3"
NAME, STATE, CONTROL = f"{BASE}.5.1.1.2", f"{BASE}.5.1.1.4", f"{BASE}.3.1.1.4"
ALL = [f"{table}.{n}" for table in (CONTROL, NAME, STATE) for n in range(1, len(OUTLETS) + 1)]
def key(oid):
    return [int(n) for n in oid.strip(".").split(".")]
def read():
    return sys.stdin.readline().strip()
def answer(word):
    if word == "PING":
        return "PONG",
    oid = read()
    value = read() if word == "set" else ""
    if word == "getnext":
        oid = next((o for o in sorted(ALL, key=key) if key(o) > key(oid)), "")
    if oid not in ALL:
        return "NONE",
    table, _, number = oid.rpartition(".")
    outlet = OUTLETS[int(number) - 1]
    if word == "set":
        later(("power-on" if value.split()[-1] == "1" else "power-off", outlet))
        return "DONE",
    if table == NAME:
        return oid, "string", outlet
    try:
        return oid, "integer", 1 if powerd("power-status", outlet) == "on" else 2
    except OSError:
        return "NONE",
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while word := read():
    print(*answer(word), sep="\\n", flush=True)
"""


class Powerd:
    """Machines and outlets, switched over a unix socket: `power-on NAME`, then code and words."""

    def __init__(
        self, folder: Path, switch: Callable[[str, str], tuple[int, str]] | None = None
    ) -> None:
        self.path = folder / "powerd.sock"
        self.states: dict[str, str] = {}
        self.acts: list[str] = []
        self._switch = switch or self._in_memory
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def script(self, path: Path, text: str, **constants: object) -> Path:
        """Write a program that can ask us."""
        head = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
        whole = f"#!/usr/bin/python3 -I\nPATH = {str(self.path)!r}\n{head}{_CLIENT}{_LATER}{text}"
        path.write_text(whole)
        path.chmod(0o755)
        return path

    def _in_memory(self, word: str, name: str) -> tuple[int, str]:
        if word == "power-cycle":
            self.states[name] = "on"
        elif word != "power-status":
            self.states[name] = word.removeprefix("power-")
        return 0, self.states.get(name, "on")

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw") as file:
            word, _, name = file.readline().strip().partition(" ")
            if word != "power-status":
                self.acts.append(f"{word} {name}")
            code, out = self._switch(word, name)
            file.write(f"{code}\n{out}")


class Device:
    """A process that stands for a device, until it is killed."""

    def __init__(self, command: list[str], folder: Path, **environment: str) -> None:
        self._log = (folder / "log").open("ab")
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={"PATH": PATH, "LC_ALL": "C.UTF-8", **environment},
            start_new_session=True,
        )

    def kill(self) -> None:
        """Let the device die, as with its power."""
        self.process.kill()
        self.process.wait()
        self._log.close()

    def freeze(self) -> None:
        """Let the device accept connections, and never answer."""
        self.process.send_signal(signal.SIGSTOP)


def wait_for(test: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def answers(port: int, address: str = "127.0.0.1") -> bool:
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


def ipmi(
    folder: Path, powerd: Powerd, node: str, address: str = "127.0.0.1", sensors: str = ""
) -> tuple[Device, int]:
    """Start one BMC that speaks IPMI, with sensors by ipmi_sim_cmd(5); return it and its port."""
    folder.mkdir()
    (folder / "state").mkdir()
    port = free_port(address)
    chassis = powerd.script(folder / "chassis", _CHASSIS)
    auth = "".join(
        f"    allowed_auths_{who} none md2 md5 straight\n"
        for who in ("callback", "user", "operator", "admin")
    )
    (folder / "lan.conf").write_text(
        f'name "bmc"\nset_working_mc 0x20\n  startlan 1\n    addr {address} {port}\n'
        f"    priv_limit admin\n{auth}    guid a123456789abcdefa123456789000002\n  endlan\n"
        f'  chassis_control "{chassis} {node}"\n'
        '  user 1 true "" "" user 10 none md2 md5 straight\n'
        f'  user 2 true "{USER}" "{PASSWORD}" admin 10 none md2 md5 straight\n'
    )
    (folder / "bmc.emu").write_text(
        "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\n"
        f"{sensors}mc_enable 0x20\n"
    )
    words = ["ipmi_sim", "-n", "-c", "lan.conf", "-f", "bmc.emu", "-s", str(folder / "state")]
    device = Device(words, folder)
    tool = ["ipmitool", "-I", "lanplus", "-H", address, "-p", str(port), "-U", USER]
    tool += ["-C", "3", "-P", PASSWORD, "chassis", "power", "status"]
    env = {"PATH": PATH}
    wait_for(lambda: subprocess.run(tool, capture_output=True, env=env).returncode == 0, 60)
    return device, port


def redfish(
    folder: Path, powerd: Powerd, node: str, address: str = "127.0.0.1"
) -> tuple[Device, int, str]:
    """Start one BMC that speaks Redfish over TLS; return it, its port and its system's path."""
    folder.mkdir()
    (folder / "state").mkdir()
    port, system = free_port(address), "00000000-0000-0000-0000-000000000002"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=bmc.example.org", "-addext", f"subjectAltName=IP:{address}"]
    words += ["-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(words, check=True, capture_output=True, cwd=folder)
    make = f"import bcrypt; print(bcrypt.hashpw({PASSWORD.encode()!r}, bcrypt.gensalt(4)).decode())"
    done = subprocess.run(
        [str(needs.EMULATOR.parent / "python"), "-c", make],
        check=True,
        capture_output=True,
        text=True,
    )
    (folder / "htpasswd").write_text(f"{USER}:{done.stdout}")
    driver = """
        import threading
        from sushy_tools import error
        from sushy_tools.emulator.resources.systems import fakedriver
        one = threading.Lock()
        def switch(word, name):
            with one:  # who asks again while a machine boots changes nothing
                if f"power-{powerd('power-status', name)}" != word:
                    powerd(word, name)
        class Driver(fakedriver.FakeDriver):
            def get_power_state(self, identity):
                name = self._get(identity)["name"]
                return "On" if powerd("power-status", name) == "on" else "Off"
            def set_power_state(self, identity, state):
                words = {"On": "power-on", "ForceOff": "power-off"}
                order = (words.get(state, "power-cycle"), self._get(identity)["name"])
                threading.Thread(target=switch, args=order).start()
        fakedriver.FakeDriver = Driver
        """
    systems = [{"uuid": system, "name": node, "power_state": "On", "nics": []}]
    settings: Mapping[str, object] = {
        "LISTEN_IP": address,
        "LISTEN_PORT": port,
        "SSL_CERT": str(folder / "cert.pem"),
        "SSL_KEY": str(folder / "key.pem"),
        "AUTH_FILE": str(folder / "htpasswd"),
        "FEATURE_SET": "minimum",
        "FAKE_DRIVER": True,
        "STATE_DIR": str(folder / "state"),
        "FAKE_SYSTEMS": systems,
    }
    text = "".join(f"SUSHY_EMULATOR_{key} = {value!r}\n" for key, value in settings.items())
    (folder / "config.py").write_text(
        f"PATH = {str(powerd.path)!r}\n{text}{_CLIENT}{dedent(driver)}"
    )
    device = Device([str(needs.EMULATOR), "--config", str(folder / "config.py")], folder)
    wait_for(lambda: answers(port, address), 60)
    return device, port, f"/redfish/v1/Systems/{system}"


def pdu(
    folder: Path, powerd: Powerd, outlets: list[str], address: str = "127.0.0.1"
) -> tuple[Device, int]:
    """Start a stand-in of an APC PDU with these outlets; return it and its port."""
    folder.mkdir()
    (folder / "state").mkdir()
    port = free_port(address)
    script = powerd.script(folder / "pass", _OUTLETS, OUTLETS=outlets)
    (folder / "snmpd.conf").write_text(
        f"agentaddress udp:{address}:{port}\nrwcommunity {PASSWORD}\n"
        f"sysobjectid .1.3.6.1.4.1.318.1.3.4.5\npass_persist .1.3.6.1.4.1.318.1.1.12.3 {script}\n"
    )
    words = ["snmpd", "-f", "-Lf", "log", "-C", "-c", "snmpd.conf", "-r", "-m", ""]
    device = Device(words, folder, SNMP_PERSISTENT_DIR=str(folder / "state"))
    get = ["snmpget", "-v1", "-c", PASSWORD, "-m", "", f"{address}:{port}", ".1.3.6.1.2.1.1.2.0"]
    env = {"PATH": PATH}
    wait_for(lambda: subprocess.run(get, capture_output=True, env=env).returncode == 0, 30)
    return device, port
