"""Resources that tasks may request besides a worker: their notation, and the amounts that this machine has."""

from __future__ import annotations

import os
import re

from gristmill import _native, _options

#: The largest number of GPUs of one node that are told apart.
GPUS_MAX = 16
#: Variables that tell the libraries of each maker their GPUs: CUDA, HIP (which reads CUDA's too), and oneAPI.
DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
#: Variables that limit the GPUs that programs see. The first that is set counts.
GPU_LIMITS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
#: Parts into which a GPU can be divided.
PARTS = 1000
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 2 ** (10 * power) for power, unit in enumerate("kmgt", 1)}
_SIZE = r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)b?"


def demand(cores: int, gpus: float, memory: int | str | None) -> tuple[int, int, int]:
    """Returns the resources that a task requests, as the engine counts them: CPU slots, thousandths of a GPU, bytes.

    Raises ``TypeError`` or ``ValueError`` for a request that no task can have.
    """
    places = _options.count("cores", cores, 1, _options.SHORT_MAX)
    share = _options.number("gpus", gpus, 0, GPUS_MAX)
    parts = round(share * PARTS)
    if (parts == 0) != (share == 0):
        raise ValueError(
            f"gpus must be between 0.001 and {GPUS_MAX}, or 0, not {_options.shown(gpus)}"
        )
    if parts > PARTS and parts % PARTS:
        raise ValueError(
            f"gpus must be a fraction of one GPU or a whole number, not {_options.shown(gpus)}"
        )
    return places, parts, 0 if memory is None else size(memory)


def size(memory: int | str, name: str = "memory") -> int:
    """Returns the bytes of a number of bytes, or of a text such as ``"4GB"`` or ``"512 MiB"``.

    :param name: the option's name in errors.
    """
    if isinstance(memory, str):
        match = re.fullmatch(_SIZE, memory.strip(), re.IGNORECASE)
        found = 0.0 if match is None else float(match[1]) * _UNITS[match[2].lower()]
        if 1 <= found <= _options.SIZE_MAX:
            return int(found)
        raise ValueError(f'{name} must be a text such as "4GB", not {_options.shown(memory)}')
    try:
        return _options.count(name, memory, 1, _options.SIZE_MAX)
    except TypeError:
        raise TypeError(
            f'{name} must be a number of bytes, or a text such as "4GB", not {_options.shown(memory)}'
        ) from None


def memory_size() -> int:
    """Returns the bytes of memory that this process and its children may use: the machine's, or a cgroup's limit."""
    return _native.memory_sizes()[0]


def check_machine_has(workers: int | None, memory: int | str | None, gpus: int | None) -> None:
    """Checks a lease of this machine against the cores, memory and GPUs that this program may use.

    Raises ``ResourceError`` that names each shortage with what was asked for and what there is.
    """
    from gristmill import _native

    cores, bytes_here, gpus_here = _native.cpu_count(), memory_size(), gpu_count()
    shortages = []
    if workers is not None and workers > cores:
        shortages.append(
            f"max_workers={workers}, and this program may use {_counted(cores, 'core')}"
        )
    if memory is not None and size(memory) > bytes_here:
        shortages.append(f"memory={memory!r}, and this program may use {bytes_here:,} bytes")
    if gpus is not None and gpus > gpus_here:
        shortages.append(f"gpus={gpus}, and this program sees {_counted(gpus_here, 'GPU')}")
    if shortages:
        from gristmill._errors import ResourceError

        raise ResourceError(
            f"the lease requests more than this machine has: {'; '.join(shortages)}. Request less, or lease nodes"
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def memory_of_machine() -> int:
    """Returns the bytes of the machine's memory, including memory that this process may not use."""
    return _native.memory_sizes()[1]


def gpu_count() -> int:
    """Returns the number of GPUs that programs started here see."""
    for variable in GPU_LIMITS:
        if variable in os.environ:
            return min(GPUS_MAX, len(visible(os.environ[variable])))
    return gpus_of_machine()


def gpus_of_machine() -> int:
    """Returns the number of GPUs found here, including GPUs that programs are not allowed to see."""
    return min(GPUS_MAX, _nvidia_count() or _amd_count())


def gpu_names() -> list[str]:
    """Returns the libraries' names of the GPUs that programs started here see."""
    for variable in DEVICE_VARIABLES:
        if variable in os.environ:
            return visible(os.environ[variable])[:GPUS_MAX]
    return [str(number) for number in range(gpu_count())]


def _nvidia_count() -> int:
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:  # a container may have only the devices; none works without the control device
        if not os.path.exists("/dev/nvidiactl"):
            return 0
        return sum(os.path.exists(f"/dev/nvidia{number}") for number in range(GPUS_MAX))


def visible(text: str) -> list[str]:
    """Returns the devices that such a variable names, up to the first invalid one."""
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
    """Returns whether a topology node has SIMD units, as GPUs have. The other nodes are processors."""
    with open(path) as file:
        properties = dict(line.split(maxsplit=1) for line in file if len(line.split()) > 1)
    return properties.get("simd_count", "0").strip() != "0"
