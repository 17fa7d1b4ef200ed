"""`headway completion`: shell completion scripts."""

import click
from click.shell_completion import get_completion_class

from headway.cli.app import COMPLETE_VARIABLE, Verb, app


@click.command(
    "completion",
    cls=Verb,
    examples=[
        ("headway completion bash > ~/.headway-completion.bash", "then source this file in ~/.bashrc"),
        ("headway completion zsh > ~/.zfunc/_headway", "with ~/.zfunc in fpath, before compinit"),
        ("headway completion fish > ~/.config/fish/completions/headway.fish", "loaded at the next start"),
    ],
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell."""
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(app, {}, "headway", COMPLETE_VARIABLE).source())
