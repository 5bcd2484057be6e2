import socket
import threading

import pytest

from devstack.http_calls import Unreachable, call
from devstack.stack import __main__ as stack
from devstack.stack import lifecycle


@pytest.mark.parametrize("sent", [b"", b"not HTTP\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart"])
def test_a_server_without_a_complete_http_response_is_unreachable(sent: bytes) -> None:
    def respond() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(sent)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=respond)
        thread.start()
        with pytest.raises(Unreachable, match="got no answer"):
            call("GET", f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join()


def test_the_command_line_of_the_stack_says_which_server_does_not_respond(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def up(*_: object) -> None:
        raise Unreachable("POST http://127.0.0.1:4443/ got no answer: timed out")

    monkeypatch.setattr(lifecycle, "up", up)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert stack.main(["up"]) == 1
    assert capsys.readouterr().err == "devstack: POST http://127.0.0.1:4443/ got no answer: timed out\n"
