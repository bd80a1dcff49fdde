"""What tasks may ask for besides a worker: how it is written, and how much of it this machine has."""

from __future__ import annotations

import os
import re

#: More GPUs of one node are not told apart.
GPUS_MAX = 16
#: What the libraries of each maker are told by; CUDA, HIP, which reads that of CUDA too, and oneAPI.
DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
#: What says that programs see fewer GPUs than there are; the first that is set counts.
GPU_LIMITS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
#: Parts that a GPU can be shared in.
PARTS = 1000
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 2 ** (10 * power) for power, unit in enumerate("kmgt", 1)}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?", re.IGNORECASE)


def demand(cores: int, gpus: float, memory: int | str | None) -> tuple[int, int, int]:
    """What a task asks for, as the engine counts it: workers' places, thousandths of a GPU, bytes.

    Raises ``ValueError`` for what no task can have.
    """
    if isinstance(cores, bool) or not isinstance(cores, int) or not 1 <= cores < 2**16:
        raise ValueError(f"cores must be a whole number of at least 1, not {cores!r}")
    parts = round(gpus * PARTS)
    is_whole = parts % PARTS == 0
    if not 0 <= parts <= GPUS_MAX * PARTS or (parts == 0) != (gpus == 0):
        raise ValueError(f"gpus must be between 0.001 and {GPUS_MAX}, or 0, not {gpus!r}")
    if parts > PARTS and not is_whole:
        raise ValueError(f"gpus must be a share of one or a whole number, not {gpus!r}")
    return cores, parts, 0 if memory is None else size(memory)


def size(memory: int | str) -> int:
    """Bytes of a number of bytes, or of a text such as ``"4GB"`` or ``"512 MiB"``. Raises ``ValueError``."""
    if isinstance(memory, str):
        match = _SIZE.fullmatch(memory.strip())
        if match is not None:
            return int(float(match[1]) * _UNITS[match[2].lower()])
    elif not isinstance(memory, bool) and isinstance(memory, int) and 0 < memory < 2**63:
        return memory
    raise ValueError(f'memory must be a number of bytes, or a text such as "4GB", not {memory!r}')


def memory_size() -> int:
    """Bytes of memory that this process and its children may use: the machine's, or less where a cgroup says so."""
    return min([memory_of_machine(), *_cgroup_limits()])


def memory_of_machine() -> int:
    """Bytes of memory that there are, whoever may use them."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")


def _cgroup_limits() -> list[int]:
    """What the cgroups above this process allow (cgroup v2)."""
    limits = []
    try:
        with open("/proc/self/cgroup") as file:
            paths = [line.strip()[3:] for line in file if line.startswith("0::")]
    except OSError:
        return []
    for path in paths:
        while True:
            try:
                with open(f"/sys/fs/cgroup{path}/memory.max") as file:
                    text = file.read().strip()
            except OSError:
                text = ""
            if text.isdigit():
                limits.append(int(text))
            if path in ("", "/"):
                break
            path = os.path.dirname(path)
    return limits


def gpu_count() -> int:
    """How many GPUs programs started here see."""
    for variable in GPU_LIMITS:
        if variable in os.environ:
            return min(GPUS_MAX, len(visible(os.environ[variable])))
    return gpus_of_machine()


def gpus_of_machine() -> int:
    """How many GPUs are found here, whatever programs are let see of them."""
    return min(GPUS_MAX, _nvidia_count() or _amd_count())


def gpu_names() -> list[str]:
    """What libraries call the GPUs that programs started here see."""
    for variable in DEVICE_VARIABLES:
        if variable in os.environ:
            return visible(os.environ[variable])[:GPUS_MAX]
    return [str(number) for number in range(gpu_count())]


def _nvidia_count() -> int:
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:  # a container may have the devices only, and nothing works without the one that controls them
        if not os.path.exists("/dev/nvidiactl"):
            return 0
        return sum(os.path.exists(f"/dev/nvidia{number}") for number in range(GPUS_MAX))


def visible(text: str) -> list[str]:
    """The devices that such a variable names: those before the first that is none."""
    devices = []
    for device in text.split(","):
        if not device.strip() or device.strip() in ("-1", "NoDevFiles"):
            break
        devices.append(device.strip())
    return devices


def _amd_count() -> int:
    root = "/sys/class/kfd/kfd/topology/nodes"
    try:
        return sum(_is_amd_gpu(f"{root}/{node}/properties") for node in os.listdir(root))
    except OSError:
        return 0


def _is_amd_gpu(path: str) -> bool:
    """Whether such a node has units that compute on vectors: the others are processors."""
    with open(path) as file:
        properties = dict(line.split(maxsplit=1) for line in file if len(line.split()) > 1)
    return properties.get("simd_count", "0").strip() != "0"
