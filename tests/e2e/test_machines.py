"""Nodes behave as machines: they have their own names, processes and files, and they can be killed and frozen."""

from __future__ import annotations

import signal
import subprocess

import pytest

from cluster import Cluster, until
from cluster.waiting import states
from talk import PEER, connect, is_established, is_silent, listening


def test_each_node_has_a_name_an_address_and_processes_of_its_own() -> None:
    with Cluster(nodes=4) as cluster:
        names = [node.run(["hostname"]).stdout.strip() for node in cluster.nodes]
        assert names == ["n1", "n2", "n3", "n4"]
        for node in [*cluster.nodes, cluster.login]:
            assert node.address in node.run(["ip", "-brief", "address"]).stdout
            processes = node.run(["ls", "/proc"]).stdout.split()
            # The first process of the node, and ``ls`` itself.
            assert len(list(filter(str.isdigit, processes))) == 2


def test_nodes_and_the_login_end_reach_each_other_by_name(cluster: Cluster) -> None:
    everybody = [cluster.login, *cluster.nodes]
    for one in everybody:
        with listening(one, "echo"):
            for other in everybody:
                assert other.run([*PEER, "ask", one.name]).stdout == f"{other.name}\n"


def test_temporary_files_are_a_nodes_own_and_shared_ones_are_not(cluster: Cluster) -> None:
    one, other = cluster.nodes
    for folder, is_shared in [("/tmp", False), ("/dev/shm", False), (cluster.shared, True)]:
        one.run(["touch", f"{folder}/mark"])
        found = other.run(["test", "-e", f"{folder}/mark"], check=False)
        assert (found.returncode == 0) is is_shared


def test_a_command_is_run_as_if_it_were_here(cluster: Cluster) -> None:
    text = 'pwd; echo "$WORD"; cat; echo bad >&2; exit 3'
    node, folder = cluster.nodes[0], cluster.shared
    done = node.run(["sh", "-c", text], env={"WORD": "a"}, cwd=folder, input="b", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{folder}\na\nb", "bad\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        node.run(["sh", "-c", "echo why >&2; false"])
    assert "on n1: why\n" in failed.value.__notes__
    with pytest.raises(OSError, match="No such file or directory: 'nowhere'"):
        node.run(["nowhere"])


def test_a_process_is_known_by_its_id_on_the_host(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    with node.start(["sleep", "infinity"]) as process:
        assert node.processes() == [process.pid]
        process.terminate()
        assert process.wait() == -signal.SIGTERM
    assert node.processes() == []


def test_a_command_ends_with_the_remote_shell_that_runs_it(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    with subprocess.Popen(
        [cluster.shell, "n1", "echo $(hostname); sleep infinity"], stdout=subprocess.PIPE
    ) as shell:
        assert shell.stdout
        assert shell.stdout.readline() == b"n1\n"
        until(lambda: len(node.processes()) == 2)
        shell.kill()
    until(lambda: not node.processes())


def test_a_frozen_node_takes_connections_and_answers_when_thawed(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    with listening(node, "echo") as process, connect(node) as connection:
        node.freeze()
        assert states([process.pid]) == {process.pid: "T"}
        connection.sendall(b"hello")
        with connect(node) as later:
            later.sendall(b"later")
            assert is_silent(connection)
            node.thaw()
            assert connection.recv(5) == b"hello"
            connection.close()
            assert later.recv(5) == b"later"


def test_a_killed_node_sends_no_message(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    with listening(node, "echo") as process, connect(node) as connection:
        connection.sendall(b"hello")
        assert connection.recv(5) == b"hello"
        node.kill()
        assert not states([process.pid])
        assert process.wait() == -signal.SIGKILL
        assert is_silent(connection)
        assert is_established(connection)
    with pytest.raises(OSError, match="n1: "):
        node.run(["true"])


def test_a_killed_node_can_be_booted_again(cluster: Cluster) -> None:
    one, other = cluster.nodes
    one.delay(1)
    one.kill()
    one.boot()
    with listening(one, "echo"):
        assert other.run([*PEER, "ask", "n1"]).stdout == "n2\n"
