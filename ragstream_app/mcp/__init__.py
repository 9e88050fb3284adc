"""The MCP server: the services as tools, resources and prompts for other programs."""
