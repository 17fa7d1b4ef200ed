"""`headway completion`: the script that makes a shell complete verbs, options and files."""

import click
from click.shell_completion import get_completion_class

from headway.cli.app import COMPLETE, Verb, app


@click.command(
    "completion",
    cls=Verb,
    examples=[
        ("headway completion bash > ~/.headway-completion.bash", "then source that file in ~/.bashrc"),
        ("headway completion zsh > ~/.zfunc/_headway", "with ~/.zfunc in fpath, before compinit"),
        ("headway completion fish > ~/.config/fish/completions/headway.fish", "read at the next start"),
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(app, {}, "headway", COMPLETE).source())
