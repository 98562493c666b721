"""The proposer `llm`: language models translate, repair and evolve kernels. What it shows them, `files` shows too."""
